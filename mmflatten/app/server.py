"""Local web server of the page."""
from collections.abc import Sequence

import gradio as gr

from mmflatten.app.page import Page
from mmflatten.app.trial import TriedModel

HOST = '127.0.0.1'
TABS = 8  # number of browser tabs whose trials stay in memory
# System fonts, because others would be downloaded.
THEME = gr.themes.Base(primary_hue='blue', font=('system-ui', 'sans-serif'), font_mono=('ui-monospace', 'monospace'))
CSS = """
.gradio-container h1 { font-size: 1.6rem; font-weight: 650; margin: 0 }
.gradio-container h2 { font-size: 1.2rem; font-weight: 600; margin: 0.8rem 0 0; overflow-wrap: anywhere }
.gradio-container h3 { font-size: 0.95rem; font-weight: 600; margin: 0; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis }
.gradio-container p { margin: 0.2rem 0; overflow-wrap: anywhere }
.gradio-container .html-container { padding: 0 }
#message [role=alert] { border-left: 4px solid #d33; padding: 0.6rem 0.9rem; color: var(--body-text-color);
  background: var(--background-fill-secondary) }
.drawing .image-frame { width: 100% }
.drawing img { width: 100%; height: auto; max-height: 26rem; object-fit: contain }
.map img, #picture img { max-width: 100%; max-height: 30rem; width: auto; height: auto }
#picture img { cursor: crosshair }
.choice { min-height: 5.75rem }
.choice input { font-size: 0.85rem; padding-right: 0.9rem; text-overflow: ellipsis }
table.numbers { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.875rem }
table.numbers, table.numbers tr { border: 0 }
table.numbers caption { text-align: left; font-weight: 600; padding: 0.4rem 0 }
table.numbers tr > * { text-align: right; padding: 0.2rem 0 0.2rem 0.75rem; font-weight: 400; vertical-align: top;
  border: 0; border-bottom: 1px solid var(--border-color-primary); color: var(--body-text-color) }
table.numbers tr > :first-child { text-align: left; padding-left: 0 }
table.numbers thead th { font-weight: 600 }
"""


def launch(models: Sequence[TriedModel], port: int | None = None) -> gr.Blocks:
    """Serve the page in background threads. Call `close()` of the result to stop.

    Args:
        port: port of the page. Defaults to the first free port from 7860.

    Raises:
        ValueError: the port is in use.
    """
    blocks = Page(models).blocks
    try:
        blocks.launch(server_name=HOST, server_port=port, share=False, prevent_thread_lock=True, quiet=True,
                      ssr_mode=False, enable_monitoring=False, footer_links=[], state_session_capacity=TABS,
                      theme=THEME, css=CSS)
    except OSError as error:
        raise ValueError(f'--port: not available ({error}), got {port}.') from error
    return blocks
