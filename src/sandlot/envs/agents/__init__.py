"""Programs that a model plays through: the endpoint that such a program calls, and the forms it speaks."""
