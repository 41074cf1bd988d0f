"""What one simulated chat participant does, and how Locust makes thousands of them do it."""
