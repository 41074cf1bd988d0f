"""What is promised, what a server as configured can give, and where the two do not fit. Pure: no clock, no socket."""
