"""One pure module per dialect: bytes or JSON in, typed events out, and the other way round. No I/O, no clock."""
