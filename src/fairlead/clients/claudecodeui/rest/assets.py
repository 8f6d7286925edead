"""Attachments over REST: upload files before their message, and download them as the user who uploaded them. Pure.

Errors are `{error}`, a text that the app shows unchanged.
"""

from typing import Final

from fairlead.clients.claudecodeui.chat.attachments import fields
from fairlead.model.errors import FairleadError
from fairlead.model.web.requests import do
from fairlead.model.web.routes import Request, Routes, Steps, json_response
from fairlead.uploads.api import AcceptForm, FileForm, ReadUpload

FORM: Final = FileForm("files")
IMAGES: Final = FileForm("images")
"""The form of app versions before 1.37."""

ROUTES: Final = Routes("claudecodeui.")


def _accept(form: FileForm) -> Steps:
    try:
        uploads = yield from do(AcceptForm(form))
    except FairleadError as error:
        return json_response({"error": error.message}, error.status)
    return json_response({form.field if form is IMAGES else "attachments": [fields(each) for each in uploads]})


ROUTES.post("/api/assets/files", "chat", "assets.upload", form=True)(lambda request: _accept(FORM))
ROUTES.post("/api/assets/images", "chat", "assets.pictures", form=True)(lambda request: _accept(IMAGES))


@ROUTES.get("/api/assets/files/{name}", "view", "assets.files")
@ROUTES.get("/api/assets/images/{name}", "view", "assets.images")
def download(request: Request) -> Steps:
    try:
        response = yield from do(ReadUpload(request.params["name"]))
    except FairleadError as error:
        return json_response({"error": error.message}, error.status)
    return response
