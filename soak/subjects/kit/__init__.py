"""What is laid on the path of a subject's interpreter: nothing of soak but one module that needs nothing."""
