"""Links: how bytes reach an agent and come back. A link knows no message; the wires split and read what it carries."""
