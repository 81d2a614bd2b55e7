"""The server's own routes: each page but home gets Streamlit's HTML, told where the server is."""

from starlette.requests import Request

from explain import contents, server


def test_every_pages_address_names_the_server_before_streamlits_script_runs():
    routes = {route.path: route for route in server.routes()}
    for page in contents.pages():
        if page.kind != "home":
            html = routes[f"/{page.stem}"].endpoint(None).body.decode()
            assert 0 < html.index("BACKEND_BASE_URL") < html.index('type="module"'), page.stem


def test_an_old_address_leads_to_its_page_with_its_query():
    routes = {route.path: route for route in server.routes()}
    for old, new in server.MOVED.items():
        assert f"/{new}" in routes
        request = Request({"type": "http", "path": f"/{old}", "query_string": b"caption=2", "headers": []})
        assert routes[f"/{old}"].endpoint(request).headers["location"] == f"./{new}?caption=2"
