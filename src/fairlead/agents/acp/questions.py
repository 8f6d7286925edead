"""ACP's elicitation forms as questions to a person, and the answers as the form's content. Pure."""

from collections.abc import Mapping
from typing import Any

from fairlead.agents.acp.wire import as_dict, as_dicts, as_text


def questions_of(params: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """One question per property of the form. A property without choices is answered with text."""
    schema = as_dict(params.get("requestedSchema"))
    message = as_text(params.get("message"))
    questions = []
    for name, given in as_dict(schema.get("properties")).items():
        field = as_dict(given)
        several = field.get("type") == "array"
        labels = _choices(as_dict(field.get("items")) if several else field)
        question = as_text(field.get("description")) or as_text(field.get("title")) or message or name
        options = [{"label": label, "description": ""} for label in labels]
        header = as_text(field.get("title")) or name
        questions.append({"question": question, "header": header, "options": options, "multiSelect": several})
    return tuple(questions)


def form_content(params: Mapping[str, Any], answers: Mapping[str, Any]) -> dict[str, Any]:
    """The form's content from a person's answers, which are keyed by the text of the question."""
    fields = as_dict(as_dict(params.get("requestedSchema")).get("properties"))
    content = {}
    for (name, given), question in zip(fields.items(), questions_of(params), strict=True):
        answer = answers.get(question["question"])
        if answer is not None:
            content[name] = _value(as_dict(given), answer)
    return content


def _choices(field: Mapping[str, Any]) -> dict[str, Any]:
    """The labels of the choices, each with its value."""
    if field.get("type") == "boolean":
        return {"Yes": True, "No": False}
    listed = as_dicts(field.get("oneOf")) or as_dicts(field.get("anyOf"))
    if listed:
        return {as_text(item.get("title")) or str(item.get("const")): item.get("const") for item in listed}
    values = field.get("enum")
    return {str(value): value for value in values} if isinstance(values, list) else {}


def _value(field: Mapping[str, Any], answer: Any) -> Any:
    if field.get("type") == "array":
        chosen = answer if isinstance(answer, list) else [part.strip() for part in str(answer).split(",")]
        choices = _choices(as_dict(field.get("items")))
        return [choices.get(str(item), item) for item in chosen]
    answer = _choices(field).get(str(answer), answer)
    number = {"integer": int, "number": float}.get(as_text(field.get("type")))
    try:
        return number(answer) if number is not None and isinstance(answer, str) else answer
    except ValueError:
        return answer
