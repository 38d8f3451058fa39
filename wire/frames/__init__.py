"""Communication between processes: every frame and the codec, the batch of PUBLISHes, names, numbered links, credit."""
