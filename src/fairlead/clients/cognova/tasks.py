"""REST for tasks, projects and reminders. Pure."""

import re
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qsl

from fairlead.clients.cognova.body_fields import BodyFields, item_json, without_none
from fairlead.clients.cognova.resource_calls import Detail, ResourceCalls
from fairlead.clients.cognova.rest import data, new_routes
from fairlead.model.errors import BadRequest, NotFound
from fairlead.model.web.requests import do
from fairlead.model.web.routes import Request, Steps
from fairlead.notifications.api.cognova import Project, Reminder, Task
from fairlead.notifications.api.resources import GetItem, ListItems

STATUSES: Final = ("todo", "in_progress", "done", "blocked")
BAD_PRIORITY: Final = "Priority must be 1 (Low), 2 (Medium), or 3 (High)"
BAD_COLOR: Final = "Color must be a valid hex color (e.g., #3b82f6)"
COLOR: Final = re.compile(r"#[0-9A-Fa-f]{6}")

ROUTES: Final = new_routes()


# --- tasks


def _task(fields: BodyFields) -> dict[str, Any]:
    priority = fields.body.get("priority")
    if priority is not None and (isinstance(priority, bool) or priority not in (1, 2, 3)):
        raise BadRequest(BAD_PRIORITY, field="priority")
    found = without_none(
        title=fields.given("title", "Task title is required"),
        description=fields.text("description"),
        status=fields.choice("status", STATUSES),
        priority=None if priority is None else int(priority),
        tags=fields.texts("tags"),
    )
    # These two can be removed again with null.
    if fields.has("projectId"):
        found["project_id"] = fields.text("projectId", 100)
    if fields.has("dueDate"):
        found["due_date"] = fields.time("dueDate")
    return found


def _with_project(task: Task) -> Detail:
    project = None
    if task.project_id:
        with suppress(NotFound):
            project = item_json((yield GetItem(Project, task.project_id)))
    return item_json(task) | {"project": project}


@ROUTES.get("/api/tasks", "view", "tasks.list")
def list_tasks(request: Request) -> Steps:
    query = parse_qsl(request.head.query, errors="replace")
    statuses = [value for name, value in query if name == "status" and value]
    project, words = request.query.get("projectId", ""), request.query.get("search", "").lower()

    def accept(task: Task) -> bool:
        return (
            (not statuses or task.status in statuses)
            and (not project or task.project_id == project)
            and (not words or words in f"{task.title}\n{task.description}".lower())
        )

    deleted = request.query.get("includeDeleted") == "true"
    found = yield from do(ListItems(Task, accept, deleted=deleted))
    projects = {project.id: item_json(project) for project in (yield ListItems(Project))}
    return data([item_json(task) | {"project": projects.get(task.project_id or "")} for task in found])


@ROUTES.get("/api/tasks/tags", "view", "tasks.tags")
def list_tags(request: Request) -> Steps:
    found = yield from do(ListItems(Task))
    return data(sorted({tag for task in found for tag in task.tags}))


TASKS: Final = ResourceCalls(Task, _task, detail=_with_project, removed=item_json)
TASKS.declare(ROUTES, "/api/tasks", "add", "get", "edit", "remove", "restore")


# --- projects


def _project(fields: BodyFields) -> dict[str, Any]:
    name, color = fields.given("name", "Project name is required"), fields.given("color", "Project color is required")
    if color is not None and not COLOR.fullmatch(color):
        raise BadRequest(BAD_COLOR, field="color")
    return without_none(name=name, color=color, description=fields.text("description"))


PROJECTS: Final = ResourceCalls(Project, _project, removed=item_json)
PROJECTS.declare(ROUTES, "/api/projects", "list", "add", "get", "edit", "remove", "restore")


# --- reminders


def _reminder(fields: BodyFields) -> dict[str, Any]:
    message, at = fields.given("message", "Reminder message is required"), fields.time("remindAt")
    if at is None and fields.new:
        raise BadRequest("remindAt is required", field="remindAt")
    return without_none(message=message, remind_at=at, task_id=fields.text("taskId", 100))


REMINDERS: Final = ResourceCalls(Reminder, _reminder)
REMINDERS.declare(ROUTES, "/api/reminders", "list", "add", "get", "edit", "remove")
