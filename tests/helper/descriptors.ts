/** Descriptors of `test.Echo` of tests/helper/grpc.ts, and of the messages that its calls carry then. */
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { type FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";

/** Types of `FieldDescriptorProto`. */
const [DOUBLE, INT64, INT32, BOOL, STRING, MESSAGE, BYTES, ENUM] = [1, 3, 5, 8, 9, 11, 12, 14];
const [OPTIONAL, REPEATED] = [1, 3];

type Field = NonNullable<
  NonNullable<MessageInitShape<typeof FileDescriptorProtoSchema>["messageType"]>[number]["field"]
>[number];

const field = (number: number, name: string, type: number, more: Field = {}): Field => ({
  ...{ number, name, type, label: OPTIONAL },
  ...more,
});

const method = (name: string, clientStreaming = false) => ({
  ...{ name, inputType: ".test.Request", outputType: ".test.Request", clientStreaming },
});

/** One .proto file, as a compiler writes it. @param extra fields of its request */
export function echoDescriptors(extra: Field[] = [], name = "test/echo.proto"): Uint8Array<ArrayBuffer> {
  return toBinary(
    FileDescriptorSetSchema,
    create(FileDescriptorSetSchema, {
      file: [{
        name,
        package: "test",
        syntax: "proto3",
        messageType: [{
          name: "Request",
          field: [
            field(1, "parent", STRING),
            field(2, "count", INT32),
            field(3, "dry_run", BOOL),
            field(4, "tags", STRING, { label: REPEATED }),
            field(5, "sizes", INT64, { label: REPEATED }),
            field(6, "inner", MESSAGE, { typeName: ".test.Request" }),
            field(7, "labels", MESSAGE, { typeName: ".test.Request.LabelsEntry", label: REPEATED }),
            field(8, "state", ENUM, { typeName: ".test.State" }),
            field(9, "data", BYTES),
            field(10, "user", STRING, { oneofIndex: 0 }),
            field(11, "group", STRING, { oneofIndex: 0 }),
            field(12, "rate", DOUBLE),
            ...extra,
          ],
          oneofDecl: [{ name: "who" }],
          nestedType: [{
            name: "LabelsEntry",
            options: { mapEntry: true },
            field: [field(1, "key", STRING), field(2, "value", STRING)],
          }],
        }],
        enumType: [{ name: "State", value: [{ name: "UNKNOWN", number: 0 }, { name: "ACTIVE", number: 1 }] }],
        service: [{
          name: "Echo",
          method: [
            method("Unary"),
            { ...method("Stream"), serverStreaming: true },
            method("Collect", true),
            { ...method("Chat", true), serverStreaming: true },
          ],
        }],
      }],
    }),
  );
}
