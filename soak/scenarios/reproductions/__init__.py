"""Published results about failovers, durability and libraries, shown again on servers of this machine."""
