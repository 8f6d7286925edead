"""The image of a login link: every module of the QR code is where a reader expects it."""

import re

import segno

from fairlead.clients.native.admin import qr_code

URL = "https://fairlead.example/#login=" + "x" * 43


def test_the_image_has_exactly_the_modules_of_the_code() -> None:
    picture = qr_code(URL)
    matrix = [list(row) for row in segno.make(URL, error="m", micro=False).matrix]
    drawn = [[0] * len(matrix) for _ in matrix]
    path = re.findall(r' d="([^"]+)"', picture)[-1]
    x = y = 0.0
    for step, numbers in re.findall(r"([Mmhv])([-0-9. ]+)", path):
        values = [float(number) for number in numbers.split()]
        if step == "M":
            x, y = values
        elif step == "m":
            x, y = x + values[0], y + values[1]
        else:
            assert step == "h"
            for column in range(round(values[0])):
                drawn[int(y - 4)][round(x) - 4 + column] = 1
            x += values[0]
    assert drawn == matrix
