"""Reads a file by the parser of the program that it is for, and prints what that makes of it as JSON.

    read.py openmetrics FILE    prometheus-client's strict parser: a list of families with their samples
    read.py junit FILE          junitparser: a list of suites with their test cases

Exit 1 and the reason where the parser refuses.
"""

import json
import sys


def openmetrics(text):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    return [
        {
            "name": family.name,
            "type": family.type,
            "unit": family.unit,
            "samples": [
                {
                    "name": sample.name,
                    "labels": sample.labels,
                    "value": sample.value,
                    "timestamp": None if sample.timestamp is None else float(sample.timestamp),
                }
                for sample in family.samples
            ],
        }
        for family in text_string_to_metric_families(text)
    ]


def junit(text):
    from junitparser import JUnitXml

    def case(found):
        results = [{"kind": type(result).__name__, "message": result.message} for result in found.result]
        return {"class": found.classname, "name": found.name, "results": results, "output": found.system_out}

    return [
        {
            "name": suite.name,
            "tests": suite.tests,
            "failures": suite.failures,
            "errors": suite.errors,
            "skipped": suite.skipped,
            "cases": [case(found) for found in suite],
        }
        for suite in JUnitXml.fromstring(text.encode())
    ]


def main():
    readers = {"openmetrics": openmetrics, "junit": junit}
    if len(sys.argv) != 3 or sys.argv[1] not in readers:
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[2], encoding="utf-8") as file:
        text = file.read()
    try:
        print(json.dumps(readers[sys.argv[1]](text)))
    except Exception as refused:  # whatever the parser raises
        print(f"{type(refused).__name__}: {refused}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
