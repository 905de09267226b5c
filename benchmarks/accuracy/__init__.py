"""Reported minus true, for this product and for others. Run it: python -m benchmarks.accuracy"""
