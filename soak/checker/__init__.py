"""The words of the consistency model and its judgements: values in, values out, no clock, no socket."""
