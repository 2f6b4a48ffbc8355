"""OpenAI's Responses dialect as pure functions, towards clients.

Requests become chat completion requests, answers become items and their events. The gateway keeps no conversation: what
would need one is refused by name.

Source: https://platform.openai.com/docs/api-reference/responses and the types of OpenAI's own SDK.
"""
