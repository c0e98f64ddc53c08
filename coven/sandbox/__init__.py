"""A GitHub that lives on localhost: REST, git over HTTP, webhooks. For the demo and the tests.

It keeps its facts in memory and its git repositories in a state folder. It is stricter than
github.com in one way: an installation token sees the repositories of its scope and nothing else,
also where they are public, so that a wrongly scoped token shows at once.
"""
