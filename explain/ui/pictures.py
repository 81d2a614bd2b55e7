"""SVG pictures, and pictures and tables with parts that can be pressed."""

from __future__ import annotations

from collections.abc import Container

import streamlit as st

from explain.ui.repeat import repeated


@repeated
def drawing(svg: str, narrow: str = "") -> None:
    """Shows an SVG in the page itself, in the page's colours and font; on a phone `narrow`, where it is given.

    (`st.html` would remove it.)
    """
    both = f'<div class="wide">{svg}</div><div class="narrow">{narrow}</div>'
    st.markdown(both if narrow else svg, unsafe_allow_html=True)


def pressable(html: str, name: str, *, of_page: bool = False) -> int:
    """Shows a picture or table in which each part with `data-press` is a button; returns how often one was pressed.

    A press writes the part's value into the page's address under `name`, where `pressed` finds it, and runs what the
    picture is a part of: a fragment, or the whole page if it is `of_page`. User text in `html` must be escaped.
    """
    key, times = f"pressable {name}", f"pressable {name}: times"

    def put() -> None:
        if value := st.session_state[key].pressed:
            st.query_params[name] = value
            st.session_state[times] = st.session_state.get(times, 0) + 1
            if of_page:
                st.rerun()

    _PRESSABLE(key=key, data={"html": html}, on_pressed_change=put)
    return presses(name)


def presses(name: str) -> int:
    """How often a part of that picture or table was pressed."""
    return int(st.session_state.get(f"pressable {name}: times", 0))


def pressed(name: str, allowed: Container[str], otherwise: str) -> str:
    """The value of `name` in the page's address if it is allowed, else `otherwise`."""
    asked = st.query_params.get(name, otherwise)
    return asked if asked in allowed else otherwise


_PRESSABLE = st.components.v2.component(
    "tilescope_pressable",
    html='<div class="board"></div>',
    css="""
@media (max-width: 640px) {                                                  /* as in app.css */
  .board:has(> table)::before { content: "← scroll sideways →"; display: block; width: max-content; position: sticky;
      left: 0; font-size: 0; color: var(--muted); animation: sideways linear both;
      animation-timeline: scroll(nearest inline) }
  @keyframes sideways { from, to { font-size: .85rem } }
}
.board { overflow-x: auto; color: var(--st-text-color); font-family: var(--st-font); line-height: 1.5 }
.narrow, .in-large { display: none }
@media (max-width: 640px) { .wide { display: none } .narrow { display: block } }
[data-press] { cursor: pointer; outline: none }
.frame { stroke: transparent; stroke-width: 1.5 }
[data-press]:hover .frame { stroke: currentColor; stroke-opacity: .35 }
[aria-pressed=true] .frame { stroke: var(--st-primary-color) }
[data-press]:focus-visible .frame { stroke: var(--st-primary-color); stroke-width: 2.5 }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .3rem .6rem; vertical-align: top;
  border-bottom: 1px solid color-mix(in srgb, currentColor 18%, transparent) }
thead th { font-weight: 400; opacity: .72 }
th button { font: 600 .875rem var(--st-code-font); white-space: nowrap; color: inherit; background: none; border: 0;
  padding: 0; border-radius: 2px; text-decoration: underline dotted 1px; text-underline-offset: .25em }
th button:focus-visible { outline: 2px solid var(--st-primary-color); outline-offset: 2px }
.n { text-align: right; white-space: nowrap }
tr[data-press]:hover { background: color-mix(in srgb, currentColor 6%, transparent) }
@media (max-width: 640px) { td:last-child:not(.n) { min-width: 12rem } th, td { padding: .3rem .2rem }
  table, th button { font-size: .8rem }
  .stacked thead { display: none } .stacked :is(tbody, tr, th, td) { display: block }
  .stacked tr { padding: .4rem .5rem; border-bottom: 1px solid color-mix(in srgb, currentColor 18%, transparent) }
  .stacked :is(th, td) { border: 0; padding: .1rem 0; white-space: normal }
  .stacked td { display: flex; justify-content: space-between; gap: 1rem; text-align: right }
  .stacked td::before { content: attr(data-head); opacity: .72; white-space: nowrap; text-align: left } }
@media (max-width: 1000px) { thead .n { white-space: normal } thead br { display: none } }
tr.on { background: color-mix(in srgb, var(--st-primary-color) 24%, transparent) }
tr.on th { box-shadow: inset 3px 0 var(--st-primary-color) }
""",
    js="""
export default function ({ data, parentElement, setTriggerValue }) {
  const board = parentElement.querySelector(".board");
  const held = board.querySelector("[data-press]:focus")?.dataset.press;
  board.innerHTML = data.html;
  const again = board.querySelectorAll(`:is([role=button], button)[data-press="${held}"]`);
  [...again].find((part) => part.checkVisibility())?.focus({ preventScroll: true });
  const press = (event) => {
    const part = event.target.closest("[data-press]");
    if (!part || (event.type === "keydown" && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    setTriggerValue("pressed", part.dataset.press);
  };
  board.onclick = press;
  board.onkeydown = press;
}
""",
)
