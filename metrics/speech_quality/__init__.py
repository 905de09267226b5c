"""How good a reply sounds: models that predict what listeners would say, and facts of the signal."""
