"""The command line. It joins the client, the environments, evaluation and training; nothing imports it."""
