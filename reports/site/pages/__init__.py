"""What each page shows, before its template."""
