"""Forms as HTML; each works without a script."""

from __future__ import annotations

import math
from dataclasses import replace

from overstory.presentation.document import Field, Form
from overstory.presentation.html_text import escaped, escaped_lines, safe_address


def as_form(form: Form) -> str:
    """Return a form.

    Examples
    --------
    >>> as_form(Form("Range", (Field("from", "From", "2026-W01"),), "Show"))[:49]
    '<form method="get" aria-label="Range"><label><spa'
    """
    action = f' action="{safe_address(form.action)}"' if form.action else ""
    is_live = " data-live" if form.is_live else ""
    sends_file = any(field.kind == "file" for field in form.fields)
    kind = ' enctype="multipart/form-data"' if sends_file else ""
    return (
        f'<form method="{form.method}"{action}{kind} aria-label="{escaped(form.label)}"{is_live}>'
        f'{"".join(map(_field, form.fields))}<button type="submit">{escaped(form.submit)}</button></form>'
    )


def _field(field: Field) -> str:
    if field.kind == "hidden":
        return f'<input type="hidden" name="{escaped(field.name)}" value="{escaped(field.value)}">'
    hint = f"<small>{escaped(field.hint)}</small>" if field.hint else ""
    return f"<label><span>{escaped(field.label)}</span>{_control(field)}{hint}</label>"


def _control(field: Field) -> str:
    name, value = f'name="{escaped(field.name)}"', f'value="{escaped(field.value)}"'
    match field.kind:
        case "choice":
            return f"<select {name}>{''.join(_option(*choice, field.value) for choice in field.choices)}</select>"
        case "lines":  # HTML leaves out a line end that follows the tag
            return f'<textarea {name} rows="6">\n{escaped_lines(field.value)}</textarea>'
        case "switch":
            return f'<input type="checkbox" {name} value="true"{" checked" if field.value == "true" else ""}>'
        case "file":
            return f'<input type="file" {name}>'
        case "slider":  # the number works without a script; with one, the slider moves it
            step = ' step="any"' if field.step is None else ""
            return f'<input type="number" {name} {value}{_limits(field)}{step}>{_slider(field)}'
    return f'<input type="{field.kind}" {name} {value}{_limits(field)}>'


def _slider(field: Field) -> str:
    """Return a slider without a name: it moves its number, on a scale of equal differences or of equal ratios."""
    label, is_log = f'aria-label="{escaped(field.label)}"', field.is_logarithmic and bool(field.least)
    if not is_log:
        return f'<input type="range" value="{escaped(field.value)}"{_limits(field)} {label} hidden>'
    ends = replace(field, least=math.log10(field.least or 1), most=math.log10(field.most or 10), step=0.01)
    try:
        place = math.log10(float(field.value))
    except ValueError:  # no number, or none above 0
        place = ends.least or 0
    return f'<input type="range" value="{place:g}"{_limits(ends)} {label} data-log hidden>'


def _option(value: str, text: str, chosen: str) -> str:
    return f'<option value="{escaped(value)}"{" selected" if value == chosen else ""}>{escaped(text)}</option>'


def _limits(field: Field) -> str:
    limits = (("min", field.least), ("max", field.most), ("step", field.step))
    return "".join(f' {name}="{number:g}"' for name, number in limits if number is not None)
