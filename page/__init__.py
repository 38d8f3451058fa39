"""The look of Bascule's two pages: the report (``analysis.page``), a file for itself, and the node's (``supervisor.http``).

Both have these files: colours and layout, signs, elements made from text, values as text. Each adds what only it shows. There is no
code in Python here.
"""
