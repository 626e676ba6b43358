"""Files that come with messages: fetched, kept, handed out, sent."""
