"""A link as a QR code for a phone's camera."""

import io

import segno


def qr_code(url: str) -> str:
    """Return an SVG, dark on white with the margin that readers need, independent of the page's style."""
    drawn = io.BytesIO()
    segno.make(url, error="m", micro=False).save(
        drawn, kind="svg", border=4, light="#fff", xmldecl=False, svgclass=None, lineclass=None
    )
    return drawn.getvalue().decode()
