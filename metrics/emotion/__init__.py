"""How a reply sounds: emotion2vec's nine emotions, and URO-Bench's score of an emotion that was asked for."""
