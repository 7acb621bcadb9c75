"""The terminal explorer: draws what `views.explorer` says, and computes nothing itself."""
