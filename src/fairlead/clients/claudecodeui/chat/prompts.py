"""Prompts and answers as commands. The settings that a prompt changes come before the prompt. Pure."""

from msgspec import structs

from fairlead.clients.claudecodeui.chat.attachments import message_blocks
from fairlead.clients.claudecodeui.chat.messages import DecidePermission, SendMessage
from fairlead.model import commands as cmd
from fairlead.model.ids import MessageId, RequestId
from fairlead.uploads.api import ClaimedUpload


def setting_commands(asked: SendMessage, now: cmd.Settings) -> list[cmd.Command]:
    """The commands that apply the prompt's settings, to run one after the other before the prompt."""
    session = asked.session
    steps: list[cmd.Command] = []
    if asked.rules is not None:
        steps.append(cmd.SetRules(session=session, allow=asked.rules.allow, deny=asked.rules.deny))
    if asked.effort and asked.effort != now.effort:
        steps.append(cmd.Configure(session=session, settings=structs.replace(now, effort=asked.effort)))
    if asked.mode and asked.mode != now.mode:
        steps.append(cmd.SetMode(session=session, mode=asked.mode))
    if asked.model and asked.model != now.model:
        steps.append(cmd.SetModel(session=session, model=asked.model))
    return steps


def prompt(asked: SendMessage, taken: tuple[ClaimedUpload, ...]) -> cmd.Send:
    return cmd.Send(
        session=asked.session,
        content=message_blocks(asked.text, taken),
        message=MessageId(asked.message) if asked.message else None,
        wait=asked.queue,
    )


def decision(given: DecidePermission) -> cmd.AnswerPermission:
    return cmd.AnswerPermission(
        request=RequestId(given.request),
        behavior="allow" if given.allow else "deny",
        message=given.message,
        updated_input=given.input,
        remember=(given.remember,) if given.remember and given.allow else (),
    )
