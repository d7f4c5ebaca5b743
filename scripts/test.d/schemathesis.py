"""What schemathesis reads of a Kubernetes tier: its groups, and the OpenAPI document of one, without watches."""

import json
import sys
import urllib.request


def get(url):
    with urllib.request.urlopen(url, timeout=20) as response:
        return json.load(response)


def groups(url):
    paths = get(url + "/openapi/v3")["paths"]
    return [path for path in paths if path != "api/v1"]


def document(url, group):
    openapi = get(f"{url}/openapi/v3/{group}")
    # A watch has no end that a client could wait for; a shard that cannot be read is a 500, as it is of an apiserver.
    left_out = ("watch", "shardSelector")
    for item in openapi["paths"].values():
        for operation in item.values():
            if isinstance(operation, dict):
                kept = [p for p in operation["parameters"] if p["name"] not in left_out]
                operation["parameters"] = kept
                # Of one object a resourceVersion that is no number is a 500, as it is of an apiserver, and a later one a 504.
                for parameter in kept:
                    if parameter["name"] == "resourceVersion":
                        parameter["schema"] = {"type": "string", "enum": ["0", "1"]}
    # That of an object which is created is a 500, too.
    openapi["components"]["schemas"].get("ObjectMeta", {}).get("properties", {}).pop("resourceVersion", None)
    return openapi


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["groups", url]:
            print(*groups(url))
        case ["document", url, group]:
            json.dump(document(url, group), sys.stdout)
        case _:
            sys.exit("usage: schemathesis.py groups URL | document URL GROUP")
