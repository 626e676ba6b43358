"""How agents come in by the Model Context Protocol: the tools, and who may use which."""
