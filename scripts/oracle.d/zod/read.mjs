// Reads a file as github-action-benchmark reads the output of its tool customSmallerIsBetter, by its schema, and prints
// what it makes of it. Exit 1 and the reason where it refuses.
//
//   node read.mjs FILE
import { readFileSync } from "node:fs";
import { z } from "zod";

// Everything is coerced there, so that null and "" become 0: whoever writes must leave an entry out.
const benchmarkResult = z.object({
    name: z.coerce.string(),
    unit: z.coerce.string(),
    value: z.coerce.number(),
    range: z.coerce.string().optional(),
    extra: z.coerce.string().optional(),
});

try {
    const found = z.array(benchmarkResult).parse(JSON.parse(readFileSync(process.argv[2], "utf8")));
    console.log(JSON.stringify(found));
} catch (error) {
    console.error(String(error.message ?? error));
    process.exit(1);
}
