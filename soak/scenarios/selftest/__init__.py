"""The proof of the verifier: plants each flaw and its correct twin, soaks both, and compares what is found."""
