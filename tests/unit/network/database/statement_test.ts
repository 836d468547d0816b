/** Kinds of statements of SQL: what is not certain counts as stronger. */
import { assert, assertEquals } from "@std/assert";
import {
  KINDS,
  readSql,
  type SqlDialect,
  type StatementKind,
} from "../../../../lib/network/database/statement.ts";

const POSTGRES: Record<StatementKind, string[]> = {
  read: [
    "",
    "; ;",
    "SELECT 1",
    "select 'delete from t; drop table t'",
    "SELECT $$ drop table t $$, $a$ $$ delete $a$",
    'SELECT "update", "Delete" FROM t -- drop table t',
    "/* delete /* nested */ drop */ SELECT 1",
    "(SELECT 1) UNION (SELECT 2)",
    "WITH x AS (SELECT 1) SELECT * FROM x WHERE a ~ '\\d+'",
    "BEGIN",
    "START TRANSACTION READ ONLY",
    "COMMIT; ROLLBACK",
    "SHOW search_path",
    "EXPLAIN DELETE FROM t",
    "EXPLAIN (ANALYZE, BUFFERS) SELECT 1",
    "COPY t TO STDOUT",
    "COPY (SELECT a FROM t) TO STDOUT WITH (FORMAT csv)",
    "SET client_encoding TO 'UTF8'",
    "SET application_name = 'x'",
    "SET TIME ZONE 'UTC'",
    "PREPARE p (int) AS SELECT $1",
    "DECLARE c CURSOR FOR SELECT 1",
    "VALUES (1, E'it\\'s')",
  ],
  write: [
    "INSERT INTO t VALUES (1)",
    "SELECT 1; DELETE FROM t",
    "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
    "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
    "SELECT * FROM t FOR UPDATE",
    "EXPLAIN ANALYZE DELETE FROM t",
    "EXPLAIN (ANALYZE) INSERT INTO t VALUES (1)",
    'EXPLAIN ("analyze") DELETE FROM t',
    "WITH x AS (SELECT 1), y AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM y",
    "COPY t FROM STDIN",
    "COPY (DELETE FROM t RETURNING *) TO STDOUT",
    "PREPARE p AS DELETE FROM t",
    "SELECT '\\' ; DELETE FROM t --'",
    "COMMIT PREPARED 'x'",
    "/* */DELETE/**/FROM t",
    "-- x\rDELETE FROM t",
    "NOTIFY x",
    "SELECT nextval('s')",
  ],
  ddl: [
    "CREATE TABLE t (a int)",
    "SELECT 1; DROP TABLE t",
    "SELECT * INTO u FROM t",
    "WITH x AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * INTO u FROM x",
    "SELECT 1 AS insert INTO u",
    "WITH x AS (SELECT 1) SELECT (1) insert INTO u FROM x",
    "TRUNCATE t",
    "ALTER TABLE t ADD b int",
    "ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES u",
    "CREATE MATERIALIZED VIEW v AS SELECT 1",
  ],
  admin: [
    "DO $$ BEGIN END $$",
    "CALL p()",
    "SET ROLE admin",
    "SET SESSION AUTHORIZATION admin",
    "SET search_path = x",
    "SET client_encoding = 'SJIS'",
    "RESET ROLE",
    "GRANT ALL ON t TO u",
    "COPY t FROM PROGRAM 'id'",
    "COPY t TO '/tmp/x'",
    "COPY t FROM '/etc/passwd'",
    "EXECUTE p",
    "CREATE ROLE x PASSWORD 'y'",
    "ALTER SYSTEM SET x = 1",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'delete from t returning 1'",
    "SELECT pg_read_file('x')",
    "SELECT setval('s', 1)",
    "SELECT aws_s3.query_export_to_s3('SELECT 1', 'x')",
    "SELECT pg_catalog.\"set_config\" ('role', 'x', false)",
    "SELECT dblink_exec('x', 'y')",
    "SELECT ('/etc/passwd'::text).pg_read_file",
    "SELECT f . \"lo_import\" FROM unnest(ARRAY['/etc/passwd']) f",
    "CREATE FOREIGN TABLE t (a text, b text, c text, d text) SERVER s OPTIONS (program 'id')",
    "ALTER TABLE t ADD a int, ADD b int, ADD c int, DISABLE ROW LEVEL SECURITY",
    "DROP OWNED BY u",
    "SELECT 'open",
    "SELECT 1 /* open",
    "SELECT U&\"\\0070\"('x')",
    "SELECT E'a'\n'b\\'; DROP TABLE t --'",
    "SELECT \ufffd",
    "SELECT 1\0; SELECT 2",
    "VACUUM t",
    "LISTEN x; DO 'x'",
    "EXPLAIN ANALYZE EXECUTE p",
    "gibberish",
  ],
};

const MYSQL: Record<StatementKind, string[]> = {
  read: [
    "SELECT 1 # ; DELETE FROM t",
    "SELECT 1 -- ; DELETE FROM t",
    "SELECT `delete`, 'it''s' FROM t",
    "SELECT @a := 1",
    "DESC t",
    "EXPLAIN DELETE FROM t",
    "SHOW CREATE TABLE t",
    "BEGIN",
    "BEGIN WORK; COMMIT",
    "SET NAMES utf8mb4",
    "SET autocommit=1",
    "SET time_zone = '+00:00'",
    "USE app",
  ],
  write: [
    "INSERT INTO t VALUES (1)",
    "SELECT 1 INTO @a",
    "SELECT * FROM t FOR UPDATE",
    "WITH x AS (SELECT 1) DELETE FROM t",
    "ANALYZE UPDATE t SET a = (SELECT 1)",
    "SELECT 1--1; DELETE FROM t",
    "SELECT '\\'; DELETE FROM t -- '",
    'SELECT "\'"; DELETE FROM t -- "',
    "SELECT 1 # x\n; DELETE FROM t",
    "SELECT 1 --\x7f '\n; DELETE FROM t -- '",
    "SELECT 1.into @x",
    "SELECT 1e1into @x",
    "SELECT .5into @x",
    "SELECT NEXT VALUE FOR s",
    "SELECT s.nextval",
  ],
  ddl: [
    "CREATE TABLE t (a int) ENGINE=InnoDB",
    "DROP TABLE t",
    "RENAME TABLE a TO b",
    "TRUNCATE t",
  ],
  admin: [
    "SELECT 1 /*! INTO OUTFILE '/tmp/x' */",
    "/*!50000 DELETE FROM t */",
    "/*M! DELETE FROM t */",
    "SELECT /*+ SET_VAR(sql_mode='') */ 1",
    "SELECT 1 INTO OUTFILE '/tmp/x'",
    "SELECT 1 INTO DUMPFILE '/tmp/x'",
    "SELECT load_file('/etc/passwd')",
    "SELECT `load_file` ('/etc/passwd')",
    "SELECT get_lock('x', 1)",
    "DELIMITER $$\nDROP TABLE t $$",
    "PREPARE s FROM @x",
    "EXECUTE s",
    "EXECUTE IMMEDIATE 'DROP TABLE t'",
    "HANDLER t READ FIRST",
    "CALL p()",
    "DO sleep(1)",
    "SET GLOBAL general_log = 1",
    "SET @@global.general_log = 1",
    "SET autocommit = 1, GLOBAL general_log = 1",
    "SET STATEMENT max_statement_time=1 FOR DELETE FROM t",
    "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
    "SET NAMES gbk",
    "BINLOG 'x'",
    "XA COMMIT 'x'",
    "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE t",
    "BEGIN NOT ATOMIC DELETE FROM t; END",
    "BEGIN DELETE FROM t; END",
    "IF 1 THEN DELETE FROM t; END IF",
    "DESC ANALYZE FORMAT=x CALL p()",
    "KILL 1",
    "RENAME USER a TO b",
    "CREATE TABLE t (a int) ENGINE=FEDERATED CONNECTION='mysql://x'",
    "CREATE TABLE t (a int) ENGINE = 'connect'",
    "CREATE TABLE t (a int) DATA DIRECTORY='/tmp'",
    "SELECT [a'] FROM t; DELETE FROM t -- '",
    "INSTALL PLUGIN x SONAME 'y'",
    "SELECT \ufffd'",
    // A space of latin1 in bytes of UTF-8: `SELECT 1 Â INTO @x`, and `FOR UPDATE` behind a letter.
    "SELECT 1 \u00a0INTO @x",
    "SELECT a FROM t \u00e0INTO @x",
    "SELECT a FROM t \u2829INTO @x",
    "SELECT spider_direct_sql('DROP TABLE t', '', 'srv \"x\"')",
    "SELECT mroonga_command('table_remove x')",
    "SELECT group_replication_set_as_primary('x')",
  ],
};

for (const kind of KINDS) {
  Deno.test("a statement names the database that it chooses, and the prepared statement that it makes or runs", () => {
    const of = (text: string, dialect: "mysql" | "postgres" = "mysql") => {
      const { kind, uses, prepared } = readSql(text, dialect);
      return [kind, uses, prepared];
    };
    assertEquals(of("USE Shop"), ["read", "Shop", undefined]);
    assertEquals(of("/* a */ use `My Shop`;"), ["read", "My Shop", undefined]);
    for (
      const text of ["USE a b", "USE", "USE 'a'", "USE a; DELETE FROM t", "SELECT 1; USE a", "USE a; USE b"]
    ) {
      assertEquals(of(text).slice(0, 2), ["admin", undefined], text);
    }
    assertEquals(of("PREPARE Plan AS DELETE FROM t", "postgres"), ["write", undefined, "Plan"]);
    assertEquals(of("EXECUTE plan (1)", "postgres")[2], "plan");
    assertEquals(of("DEALLOCATE PREPARE plan", "postgres")[2], "plan");
    assertEquals(of(`EXECUTE "${"p".repeat(100)}"`, "postgres")[2], "p".repeat(64));
    assertEquals(of("SELECT use", "postgres"), ["read", undefined, undefined]);
  });

  Deno.test(`MySQL: ${kind}`, () => {
    for (const text of MYSQL[kind]) assertEquals(readSql(text, "mysql").kind, kind, text);
  });
}

Deno.test("MySQL: a server that says what a backslash is makes a text certain", () => {
  const text = "SELECT 'it\\'s'";
  const hidden = "SELECT '\\'; DELETE FROM t -- '";
  assertEquals([true, false, undefined].map((escapes) => readSql(text, "mysql", escapes).kind), [
    "read",
    "admin",
    "admin",
  ]);
  assertEquals([true, false, undefined].map((escapes) => readSql(hidden, "mysql", escapes).kind), [
    "read",
    "write",
    "write",
  ]);
});

for (const kind of KINDS) {
  Deno.test(`PostgreSQL: ${kind}`, () => {
    for (const text of POSTGRES[kind]) assertEquals(readSql(text, "postgres").kind, kind, text);
  });
}

Deno.test("a fingerprint has no literal, and the command of the strongest statement", () => {
  const read = (text: string, dialect: SqlDialect = "postgres") => readSql(text, dialect);
  assertEquals(read("select 1;\n insert into T (a,b) values ('secret', 1.5e3), ($1, 'x')"), {
    kind: "write",
    command: "INSERT",
    fingerprint: "select ?; insert into t(a, b) values(?, ?), ($1, ?)",
  });
  assertEquals(read("CREATE USER x PASSWORD $$hidden-secret$$").fingerprint, "create user x password ?");
  assert(read(`SELECT ${"a, ".repeat(5000)}1`).fingerprint.length <= 2049);
});

Deno.test("texts of many comments, quotes and tokens are read in time that grows with their length", () => {
  for (
    const piece of ["/*", "--\n", "/**/", "''", "$a$", "a ", "1,", "(", "--\r", "-- \r\n", '"', "prepare as "]
  ) {
    const text = piece.repeat(1_000_000);
    assert(KINDS.includes(readSql(`${text}*/`, "postgres").kind), piece);
  }
});
