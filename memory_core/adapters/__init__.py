"""Our tools in the forms that existing agents take: OpenAI functions, MCP and others; each imported by its name."""
