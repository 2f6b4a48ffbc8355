"""Anthropic's Messages dialect as pure functions, towards clients and towards upstreams.

Inside the gateway everything is chat completions: each module here translates one direction. What chat completions do
not know travels in fields that they leave free, in the forms that are in use for it: `cache_control` on parts and
tools, `reasoning_details` for signed thinking, native blocks (`document`, `search_result`) as content parts.

Source: https://platform.claude.com/docs/en/api/messages, version 2023-06-01, and the types of Anthropic's own SDK.
"""
