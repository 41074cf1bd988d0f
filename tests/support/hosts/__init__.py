"""Several hosts on one machine: namespaces with networks and clocks of their own."""
