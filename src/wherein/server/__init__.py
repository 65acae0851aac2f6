"""The third door: HTTP and the web page, over the same facade as Python and the command.

settings.py  what the server allows       guard.py     who may ask, how much, and what browsers may do with answers
problems.py  one error shape              shapes.py    requests and answers, as OpenAPI describes them
library.py   the served collections       requests.py  a request → a query → a page of a ranking
routes/      one file a group of routes   app.py       all of it together
"""
