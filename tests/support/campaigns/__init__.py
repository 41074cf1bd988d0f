"""Long runs that kill and break things at random moments."""
