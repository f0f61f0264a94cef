"""The jobs of the runs of real engines, each with its input and with what its output has to be."""
