"""UTMOS22-strong: predicted naturalness of synthetic speech, with the model that URO-Bench uses.

T. Saeki, D. Xin, W. Nakata, T. Koriyama, S. Takamichi, H. Saruwatari: "UTMOS", arXiv:2204.02152 (the strong learner,
without its phoneme encoder), in the form and with the weights of tarepan/SpeechMOS v1.2.0.
"""
