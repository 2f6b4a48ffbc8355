"""Where answers come from: OpenAI-compatible servers, the extractive answerer, a scripted double."""
