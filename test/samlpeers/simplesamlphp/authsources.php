<?php
$config = [
    'static' => [
        'exampleauth:StaticSource',
        'uid' => ['lee'],
        'mail' => ['lee@globex.example'],
        'givenName' => ['Lee'],
        'sn' => ['Ng'],
    ],
];
