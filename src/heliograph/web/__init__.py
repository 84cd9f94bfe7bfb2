"""The REST API: what the commands do, over HTTP. The home of Starlette and uvicorn."""
