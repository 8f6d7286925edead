"""A link as a picture that a phone's camera reads."""

import io

import segno


def qr_code(url: str) -> str:
    """SVG; dark on white with the margin that readers want, whatever the page around it looks like."""
    drawn = io.BytesIO()
    segno.make(url, error="m", micro=False).save(
        drawn, kind="svg", border=4, light="#fff", xmldecl=False, svgclass=None, lineclass=None
    )
    return drawn.getvalue().decode()
