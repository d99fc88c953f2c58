"""Providers that do what the user's text tells them, each in its own protocol.

One process is all of them: the first segment of a path is the provider's name (`/gemini/v1beta/models/...`). Nothing is
kept between two calls, so that any number of tests share it. `talk.py` says how a text is read and what is done about it,
`serve.py` is the HTTP, the other files hold one protocol each.
"""
