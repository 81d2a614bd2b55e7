"""The server's own routes: each page but home gets Streamlit's HTML, told where the server is."""

from explain import contents, server


def test_every_pages_address_names_the_server_before_streamlits_script_runs():
    routes = {route.path: route for route in server.routes()}
    for page in contents.pages():
        if page.kind != "home":
            html = routes[f"/{page.stem}"].endpoint(None).body.decode()
            assert 0 < html.index("BACKEND_BASE_URL") < html.index('type="module"'), page.stem
