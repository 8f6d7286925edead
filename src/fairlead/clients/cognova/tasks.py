"""REST for tasks, projects and reminders. Pure."""

import re
from typing import Any, Final

from fairlead.clients.cognova.body_fields import (
    BodyFields,
    item_json,
    not_found_message,
    query_values,
    route,
    without_none,
)
from fairlead.clients.cognova.rest import data, problem, with_errors
from fairlead.model.errors import BadRequest, NotFound, Stale
from fairlead.model.web.routes import Request, Steps
from fairlead.notifications.api.cognova import Project, Reminder, Task
from fairlead.notifications.api.resources import AddItem, EditItem, GetItem, ListItems, RemoveItem, RestoreItem

STATUSES: Final = ("todo", "in_progress", "done", "blocked")
NO_TASK: Final = "Task not found"
NO_PROJECT: Final = "Project not found"
NO_REMINDER: Final = "Reminder not found"
NO_TITLE: Final = "Task title is required"
BAD_PRIORITY: Final = "Priority must be 1 (Low), 2 (Medium), or 3 (High)"
NO_NAME: Final = "Project name is required"
NO_COLOR: Final = "Project color is required"
BAD_COLOR: Final = "Color must be a valid hex color (e.g., #3b82f6)"
COLOR: Final = re.compile(r"#[0-9A-Fa-f]{6}")


# --- tasks


def _task(fields: BodyFields) -> dict[str, Any]:
    priority = fields.body.get("priority")
    if priority is not None and (isinstance(priority, bool) or priority not in (1, 2, 3)):
        raise BadRequest(BAD_PRIORITY, field="priority")
    found = without_none(
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


def _with_project(task: Task) -> Any:
    project = None
    if task.project_id:
        try:
            project = item_json((yield GetItem(Project, task.project_id)))
        except NotFound:
            project = None
    return item_json(task) | {"project": project}


@with_errors
def list_tasks(request: Request) -> Steps:
    statuses, project = query_values(request, "status"), request.query.get("projectId", "")
    words = request.query.get("search", "").lower()

    def accept(task: Task) -> bool:
        return (
            (not statuses or task.status in statuses)
            and (not project or task.project_id == project)
            and (not words or words in f"{task.title}\n{task.description}".lower())
        )

    deleted = request.query.get("includeDeleted") == "true"
    found: tuple[Task, ...] = yield ListItems(Task, accept, deleted=deleted)
    projects = {project.id: item_json(project) for project in (yield ListItems(Project))}
    return data([item_json(task) | {"project": projects.get(task.project_id or "")} for task in found])


@with_errors
def list_tags(request: Request) -> Steps:
    found: tuple[Task, ...] = yield ListItems(Task)
    return data(sorted({tag for task in found for tag in task.tags}))


@not_found_message(NO_TASK)
def get_task(request: Request) -> Steps:
    return data((yield from _with_project((yield GetItem(Task, request.params["id"])))))


@with_errors
def add_task(request: Request) -> Steps:
    fields = BodyFields(request)
    task = Task(id=request.fresh, title=fields.required("title", NO_TITLE), **_task(fields))
    return data((yield from _with_project((yield AddItem(task)))))


@not_found_message(NO_TASK)
def edit_task(request: Request) -> Steps:
    fields = BodyFields(request)
    changes = _task(fields)
    if fields.has("title"):
        changes["title"] = fields.required("title", NO_TITLE)
    return data((yield from _with_project((yield EditItem(Task, request.params["id"], changes)))))


@not_found_message(NO_TASK)
def remove_task(request: Request) -> Steps:
    return data(item_json((yield RemoveItem(Task, request.params["id"]))))


@not_found_message(NO_TASK)
def restore_task(request: Request) -> Steps:
    try:
        return data((yield from _with_project((yield RestoreItem(Task, request.params["id"])))))
    except Stale as error:
        return problem(400, error.message)


# --- projects


def _color(fields: BodyFields) -> str:
    color = fields.required("color", NO_COLOR)
    if not COLOR.fullmatch(color):
        raise BadRequest(BAD_COLOR, field="color")
    return color


@with_errors
def list_projects(request: Request) -> Steps:
    deleted = request.query.get("includeDeleted") == "true"
    return data([item_json(project) for project in (yield ListItems(Project, deleted=deleted))])


@not_found_message(NO_PROJECT)
def get_project(request: Request) -> Steps:
    return data(item_json((yield GetItem(Project, request.params["id"]))))


@with_errors
def add_project(request: Request) -> Steps:
    fields = BodyFields(request)
    project = Project(
        id=request.fresh,
        name=fields.required("name", NO_NAME),
        color=_color(fields),
        description=fields.text("description") or "",
    )
    return data(item_json((yield AddItem(project))))


@not_found_message(NO_PROJECT)
def edit_project(request: Request) -> Steps:
    fields = BodyFields(request)
    changes = without_none(
        name=fields.required("name", NO_NAME) if fields.has("name") else None,
        color=_color(fields) if fields.has("color") else None,
        description=fields.text("description"),
    )
    return data(item_json((yield EditItem(Project, request.params["id"], changes))))


@not_found_message(NO_PROJECT)
def remove_project(request: Request) -> Steps:
    return data(item_json((yield RemoveItem(Project, request.params["id"]))))


@not_found_message(NO_PROJECT)
def restore_project(request: Request) -> Steps:
    try:
        return data(item_json((yield RestoreItem(Project, request.params["id"]))))
    except Stale as error:
        return problem(400, error.message)


# --- reminders


@with_errors
def list_reminders(request: Request) -> Steps:
    return data([item_json(reminder) for reminder in (yield ListItems(Reminder))])


@not_found_message(NO_REMINDER)
def get_reminder(request: Request) -> Steps:
    return data(item_json((yield GetItem(Reminder, request.params["id"]))))


@with_errors
def add_reminder(request: Request) -> Steps:
    fields = BodyFields(request)
    message = fields.required("message", "Reminder message is required")
    at = fields.time("remindAt")
    if at is None:
        raise BadRequest("remindAt is required", field="remindAt")
    reminder = Reminder(id=request.fresh, message=message, remind_at=at, task_id=fields.text("taskId", 100))
    return data(item_json((yield AddItem(reminder))))


@not_found_message(NO_REMINDER)
def edit_reminder(request: Request) -> Steps:
    fields = BodyFields(request)
    changes = without_none(
        message=fields.required("message", "Reminder message is required") if fields.has("message") else None,
        remind_at=fields.time("remindAt"),
        task_id=fields.text("taskId", 100),
    )
    return data(item_json((yield EditItem(Reminder, request.params["id"], changes))))


@not_found_message(NO_REMINDER)
def remove_reminder(request: Request) -> Steps:
    yield RemoveItem(Reminder, request.params["id"])
    return data({"success": True})


ROUTES: Final = (
    route("GET", "/api/tasks", "view", list_tasks, "Tasks, newest first."),
    route("GET", "/api/tasks/tags", "view", list_tags, "All tags of tasks, sorted."),
    route("POST", "/api/tasks", "chat", add_task, "A new task."),
    route("GET", "/api/tasks/{id}", "view", get_task, "One task, with its project."),
    route("PUT", "/api/tasks/{id}", "chat", edit_task, "Change a task."),
    route("DELETE", "/api/tasks/{id}", "chat", remove_task, "Delete a task; it can be restored."),
    route("POST", "/api/tasks/{id}/restore", "chat", restore_task, "Restore a deleted task."),
    route("GET", "/api/projects", "view", list_projects, "Projects, newest first."),
    route("POST", "/api/projects", "chat", add_project, "A new project."),
    route("GET", "/api/projects/{id}", "view", get_project, "One project."),
    route("PUT", "/api/projects/{id}", "chat", edit_project, "Change a project."),
    route("DELETE", "/api/projects/{id}", "chat", remove_project, "Delete a project; it can be restored."),
    route("POST", "/api/projects/{id}/restore", "chat", restore_project, "Restore a deleted project."),
    route("GET", "/api/reminders", "view", list_reminders, "Reminders, newest first."),
    route("POST", "/api/reminders", "chat", add_reminder, "A new reminder: it fires at its time."),
    route("GET", "/api/reminders/{id}", "view", get_reminder, "One reminder."),
    route("PUT", "/api/reminders/{id}", "chat", edit_reminder, "Change a reminder; another time lets it fire again."),
    route("DELETE", "/api/reminders/{id}", "chat", remove_reminder, "Delete a reminder."),
)
