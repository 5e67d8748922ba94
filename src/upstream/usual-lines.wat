;; Copies storage records of the usual form into the exposed form, many bytes at a time; see `bso-stream.ts`.
;; A record is one line, written as syncstorage-rs writes it:
;;
;;   {"id":"…","modified":1234567890.12,"payload":"…","sortindex":-5}     (`sortindex` may be absent)
;;
;; and becomes, behind a comma,
;;
;;   {"id":"…","last_modified":1234567890120,"payload":"…","sortindex":-5}
;;
;; Every byte is looked at: what is copied is valid JSON, if it is valid UTF-8. Bytes are read and written 16 at a time, so
;; up to 15 bytes behind the input are read and up to 15 behind the output are written, and mean nothing.
(module
  (memory (export "memory") 3 3)

  ;; The fixed parts of a record, of at most 16 bytes each.
  (data (i32.const 0x00) "{\"id\":\"")
  (data (i32.const 0x10) ",\"modified\":")
  (data (i32.const 0x20) ",\"payload\":\"")
  (data (i32.const 0x30) ",\"sortindex\":")
  (data (i32.const 0x40) "}\n")
  (data (i32.const 0x50) ",\"last_modified\":")

  ;; The next byte to read, and the next to write.
  (global $in (mut i32) (i32.const 0))
  (global $out (mut i32) (i32.const 0))
  ;; Behind the last record that was written, and the number of them.
  (global $written (export "written") (mut i32) (i32.const 0))
  (global $count (export "count") (mut i32) (i32.const 0))

  ;; Copies the usual lines from `$from` on. The input ends with a line break. Returns where the first other line begins, or
  ;; where the input ends.
  (func (export "copyLines") (param $from i32) (param $to i32) (param $out i32) (result i32)
    (global.set $in (local.get $from))
    (global.set $out (local.get $out))
    (global.set $written (local.get $out))
    (global.set $count (i32.const 0))
    (loop $next
      (if (i32.eq (local.get $from) (local.get $to)) (then (return (local.get $from))))
      (if (i32.eqz (call $copyLine)) (then (return (local.get $from))))
      (local.set $from (global.get $in))
      (global.set $written (global.get $out))
      (global.set $count (i32.add (global.get $count) (i32.const 1)))
      (br $next))
    (unreachable))

  ;; Copies one line; 0: it has another form.
  (func $copyLine (result i32)
    (local $seconds v128)
    (i32.store8 (global.get $out) (i32.const 44 (; comma ;)))
    (global.set $out (i32.add (global.get $out) (i32.const 1)))

    (if (i32.eqz (call $isNext (i32.const 0x00) (i32.const 7))) (then (return (i32.const 0))))
    (call $copy (i32.const 7))
    ;; An id is not empty.
    (if (i32.eq (i32.load8_u (global.get $in)) (i32.const 34 (; quote ;))) (then (return (i32.const 0))))
    (if (i32.eqz (call $copyString)) (then (return (i32.const 0))))

    (if (i32.eqz (call $isNext (i32.const 0x10) (i32.const 12))) (then (return (i32.const 0))))
    (global.set $in (i32.add (global.get $in) (i32.const 12)))
    ;; Ten digits, the first of them no zero, a dot, two digits.
    (local.set $seconds (v128.load (global.get $in)))
    (if (i32.ne (i32.const 0x1bff)
                (i32.and (i32.const 0x1fff) (i8x16.bitmask (call $areDigits (local.get $seconds)))))
      (then (return (i32.const 0))))
    (if (i32.eq (i8x16.extract_lane_u 0 (local.get $seconds)) (i32.const 48 (; zero ;))) (then (return (i32.const 0))))
    (if (i32.ne (i8x16.extract_lane_u 10 (local.get $seconds)) (i32.const 46 (; dot ;))) (then (return (i32.const 0))))
    (v128.store (global.get $out) (v128.load (i32.const 0x50)))
    (i32.store8 offset=16 (global.get $out) (i32.const 58 (; colon ;)))
    (v128.store offset=17 (global.get $out) (local.get $seconds))
    (i32.store16 offset=27 (global.get $out) (i32.load16_u offset=11 (global.get $in)))
    (i32.store8 offset=29 (global.get $out) (i32.const 48 (; zero ;)))
    (global.set $in (i32.add (global.get $in) (i32.const 13)))
    (global.set $out (i32.add (global.get $out) (i32.const 30)))

    (if (i32.eqz (call $isNext (i32.const 0x20) (i32.const 12))) (then (return (i32.const 0))))
    (call $copy (i32.const 12))
    (if (i32.eqz (call $copyString)) (then (return (i32.const 0))))

    (if (call $isNext (i32.const 0x30) (i32.const 13))
      (then
        (call $copy (i32.const 13))
        (if (i32.eqz (call $copyInteger)) (then (return (i32.const 0))))))

    (if (i32.eqz (call $isNext (i32.const 0x40) (i32.const 2))) (then (return (i32.const 0))))
    (call $copy (i32.const 1))
    (global.set $in (i32.add (global.get $in) (i32.const 1)))
    (i32.const 1))

  ;; Whether the input goes on with so many bytes of a fixed part.
  (func $isNext (param $part i32) (param $length i32) (result i32)
    (i32.eqz (i32.shl
      (i32.xor (i32.const 0xffff)
               (i8x16.bitmask (i8x16.eq (v128.load (global.get $in)) (v128.load (local.get $part)))))
      (i32.sub (i32.const 32) (local.get $length)))))

  ;; Copies at most 16 bytes.
  (func $copy (param $length i32)
    (v128.store (global.get $out) (v128.load (global.get $in)))
    (global.set $in (i32.add (global.get $in) (local.get $length)))
    (global.set $out (i32.add (global.get $out) (local.get $length))))

  ;; Copies the rest of a string up to its closing quote; 0: it is broken.
  (func $copyString (result i32)
    (local $in i32)
    (local $out i32)
    (local $bytes v128)
    (local $isQuote v128)
    (local $isBackslash v128)
    (local $marks i32)
    (local $length i32)
    (local.set $in (global.get $in))
    (local.set $out (global.get $out))
    (loop $next
      (local.set $bytes (v128.load (local.get $in)))
      (v128.store (local.get $out) (local.get $bytes))
      (local.set $isQuote
        (i8x16.eq (local.get $bytes) (v128.const i64x2 0x2222222222222222 0x2222222222222222)))
      (local.set $isBackslash
        (i8x16.eq (local.get $bytes) (v128.const i64x2 0x5c5c5c5c5c5c5c5c 0x5c5c5c5c5c5c5c5c)))
      ;; One bit for each byte that is a quote, a backslash or a control character.
      (local.set $marks (i8x16.bitmask (v128.or
        (v128.or (local.get $isQuote) (local.get $isBackslash))
        (i8x16.lt_u (local.get $bytes) (v128.const i64x2 0x2020202020202020 0x2020202020202020)))))
      ;; Escaped quotes are by far the most frequent marks and need no closer look: the two bits of each are cleared. Of two
      ;; backslashes before a quote the first keeps its bit, so that the look begins there.
      (if (local.get $marks)
        (then
          (local.set $marks (i32.xor (local.get $marks) (i32.mul (i32.const 3)
            (i32.and (i8x16.bitmask (local.get $isBackslash))
                     (i32.shr_u (i8x16.bitmask (local.get $isQuote)) (i32.const 1))))))))
      (if (i32.eqz (local.get $marks))
        (then
          (local.set $in (i32.add (local.get $in) (i32.const 16)))
          (local.set $out (i32.add (local.get $out) (i32.const 16)))
          (br $next)))
      (local.set $length (i32.ctz (local.get $marks)))
      (global.set $in (i32.add (local.get $in) (local.get $length)))
      (global.set $out (i32.add (local.get $out) (local.get $length)))
      (if (i32.eq (i32.load8_u (global.get $in)) (i32.const 34 (; quote ;)))
        (then
          (call $copy (i32.const 1))
          (return (i32.const 1))))
      (local.set $length (call $escapeLength))
      (call $copy (local.get $length))
      (local.set $in (global.get $in))
      (local.set $out (global.get $out))
      (br_if $next (local.get $length)))
    (i32.const 0))

  ;; The length of the escape that begins here, like `\n` or `\u00fc`; 0: it is none.
  (func $escapeLength (result i32)
    (local $bytes v128)
    (local $letter i32)
    (if (i32.ne (i32.load8_u (global.get $in)) (i32.const 92 (; backslash ;))) (then (return (i32.const 0))))
    (local.set $letter (i32.load8_u offset=1 (global.get $in)))
    (if (i32.eq (local.get $letter) (i32.const 34 (; quote ;))) (then (return (i32.const 2))))
    (if (i32.eq (local.get $letter) (i32.const 117 (; u ;)))
      (then
        ;; Four digits, or letters from a to f.
        (local.set $bytes (v128.load (global.get $in)))
        (return (select (i32.const 6) (i32.const 0) (i32.eq (i32.const 0x3c) (i32.and (i32.const 0x3c) (i8x16.bitmask
          (v128.or (call $areDigits (local.get $bytes))
                   (i8x16.lt_u
                     (i8x16.sub (v128.or (local.get $bytes) (i8x16.splat (i32.const 32))) (i8x16.splat (i32.const 97)))
                     (i8x16.splat (i32.const 6)))))))))))
    ;; One of the letters \ / b f n r t.
    (select (i32.const 2) (i32.const 0) (v128.any_true (i8x16.eq
      (i8x16.splat (local.get $letter))
      (v128.const i8x16 92 47 98 102 110 114 116 92 92 92 92 92 92 92 92 92)))))

  ;; Copies an integer of at most twelve digits; 0: it is none.
  (func $copyInteger (result i32)
    (local $length i32)
    (if (i32.eq (i32.load8_u (global.get $in)) (i32.const 45 (; minus ;)))
      (then
        (call $copy (i32.const 1))
        ;; There is no -0 in what is printed.
        (if (i32.eq (i32.load8_u (global.get $in)) (i32.const 48)) (then (return (i32.const 0))))))
    (local.set $length (i32.ctz (i32.xor (i32.const -1)
      (i8x16.bitmask (call $areDigits (v128.load (global.get $in)))))))
    (if (i32.gt_u (local.get $length) (i32.const 12)) (then (return (i32.const 0))))
    ;; No zero leads other digits.
    (if (i32.and (i32.eq (i32.load8_u (global.get $in)) (i32.const 48)) (i32.ne (local.get $length) (i32.const 1)))
      (then (return (i32.const 0))))
    (call $copy (local.get $length))
    (local.get $length))

  (func $areDigits (param $bytes v128) (result v128)
    (i8x16.lt_u (i8x16.sub (local.get $bytes) (i8x16.splat (i32.const 48))) (i8x16.splat (i32.const 10)))))
