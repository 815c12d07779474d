"""QuestDB, the open-source server."""
