"""A gate as JUnit XML: one test case per check, a failure with its reason for each that did not hold."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from harness.compare.gate import Check, Gate
from harness.report.wording import clean


def junit_xml(gate: Gate) -> bytes:
    """The file's content. A check that cannot be told is a failure of type "untold"."""
    failures = sum(not check.held for check in gate.checks)
    counts = {"tests": str(len(gate.checks)), "failures": str(failures), "errors": "0", "skipped": "0"}
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": "duologue gate", **counts})
    properties = ET.SubElement(suite, "properties")
    for name, value in (("run", gate.run), ("baseline", gate.baseline)):
        if value:
            ET.SubElement(properties, "property", {"name": name, "value": clean(value)})
    for check in gate.checks:
        _add_case(suite, check)
    if gate.remarks:
        ET.SubElement(suite, "system-out").text = clean("\n".join(gate.remarks))
    ET.indent(suites)
    text: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _add_case(suite: ET.Element, check: Check) -> None:
    case = ET.SubElement(suite, "testcase", {"classname": f"duologue.{check.kind}", "name": clean(check.text)})
    if not check.held:
        kind = "untold" if check.held is None else check.kind
        failure = ET.SubElement(case, "failure", {"type": kind, "message": clean(check.why)})
        failure.text = clean(check.why)
    told = [check.why, *(f"not under equal conditions: {mark}" for mark in check.marks)]
    ET.SubElement(case, "system-out").text = clean("\n".join(told))
