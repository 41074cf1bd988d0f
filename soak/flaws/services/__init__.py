"""Memory services with a planted bug, each with its correct twin beside it: processes of their own, behind HTTP.

They are scripts like those of libraries, so `soak check --store http --subject FILE` soaks one by itself, too.
"""
